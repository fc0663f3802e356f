//! The controller against a real kube-apiserver with etcd, in one process after the other:
//! `VARMOR_KUBE_BIN=FOLDER VARMOR_ETCD=FILE cargo test -p varmor-controller --test apiserver`.

mod agents;
mod lab;
mod policies;
mod trouble;

use lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_keeps_its_promises_on_a_real_api_server() {
    let mut lab = match Lab::start().await {
        Ok(lab) => lab,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    // They share the API server, and each leaves it as it was.
    policies::policy_becomes_profile(&mut lab).await;
    policies::edit_and_refused_edits(&mut lab).await;
    policies::colliding_names(&mut lab).await;
    policies::cluster_policy(&mut lab).await;
    policies::workloads_are_rolled_once(&mut lab).await;
    policies::services_are_followed(&mut lab).await;
    agents::reports(&mut lab).await;
    agents::a_stale_report_does_not_make_ready(&mut lab).await;
    trouble::undecodable_object(&mut lab).await;
    trouble::conflict(&mut lab).await;
    trouble::deleted_while_the_controller_was_down(&mut lab).await;
    trouble::namespace_deleted(&mut lab).await;
    trouble::one_leads(&mut lab).await;
}
