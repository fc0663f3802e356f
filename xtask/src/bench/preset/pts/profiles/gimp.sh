# GIMP edits photographs and saves each in its place: gimp-EDIT PHOTOGRAPHS
set -e
column=$1 amount=$2
case $column in
gimp-resize) edit='(gimp-image-scale image 600 400)' ;;
gimp-rotate) edit='(gimp-image-rotate image 0)' ;;
gimp-levels) edit='(gimp-drawable-levels-stretch drawable)' ;;
gimp-unsharp) edit='(plug-in-unsharp-mask 1 image drawable 15.0 0.6 0)' ;;
*)
    echo "gimp has no column $column"
    exit 2
    ;;
esac
# Its settings and the photographs stay from run to run.
export HOME=/pts/gimp-home
photographs=/pts/photographs folder=/pts/gimp
busybox mkdir -p "$HOME" "$photographs"
busybox rm -rf "$folder"
busybox mkdir -p "$folder"
for number in $(busybox seq 0 $((amount - 1))); do
    file=$photographs/$number.JPG
    if [ ! -f "$file" ]; then
        gimp -i -b "(let* ((image (car (gimp-image-new 1600 1200 0)))
            (layer (car (gimp-layer-new image 1600 1200 0 \"a\" 100 0))))
            (gimp-image-insert-layer image layer 0 0) (plug-in-plasma 1 image layer $number 4.0)
            (file-jpeg-save 1 image layer \"$file\" \"$file\" 0.9 0 1 0 \"\" 2 1 0 0))" -b '(gimp-quit 0)'
    fi
    busybox cp "$file" "$folder/$number.JPG"
done
now() {
    read -r up _ < /proc/uptime
    echo "$up"
}
before=$(now)
gimp -i -b "(let loop ((files (cadr (file-glob \"$folder/*.JPG\" 1)))) (if (pair? files) (let* ((file (car files))
    (image (car (gimp-file-load 1 file file))) (drawable (car (gimp-image-get-active-layer image)))) $edit
    (gimp-file-save 1 image (car (gimp-image-get-active-layer image)) file file) (gimp-image-delete image)
    (loop (cdr files)))))" -b '(gimp-quit 0)' > "$folder/said" 2>&1 || echo 'Error: gimp failed' >> "$folder/said"
after=$(now)
busybox cat "$folder/said"
if busybox grep -q 'Error:' "$folder/said"; then
    exit 1
fi
for number in $(busybox seq 0 $((amount - 1))); do
    if busybox cmp -s "$photographs/$number.JPG" "$folder/$number.JPG"; then
        echo "gimp has not changed photograph $number"
        exit 1
    fi
done
busybox awk -v "before=$before" -v "after=$after" 'BEGIN { printf "varmor-result: %.2f\n", after - before }'
