{{/* Labels of everything that the chart installs. */}}
{{- define "varmor.labels" -}}
app.kubernetes.io/name: varmor
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* An image: (list . "name") */}}
{{- define "varmor.image" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $registry := $root.Values.image.registry | trimSuffix "/" -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $name }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- define "varmor.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "varmor.priorityClass" -}}
{{- with .Values.priorityClass.name }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
