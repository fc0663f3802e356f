//! The controller against a real kube-apiserver with etcd, in one process after the other: `cargo xtask test --suite apiserver`,
//! or `VARMOR_KUBE_BIN=FOLDER VARMOR_ETCD=FILE cargo test -p varmor-controller --test apiserver -- --ignored`.
#![expect(
    clippy::unwrap_used,
    reason = "a test, of which only the functions marked as such count for the lint"
)]

mod admission;
mod agents;
mod lab;
mod policies;
mod recordings;
mod trouble;

use lab::Lab;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kube-apiserver, which takes minutes to build: cargo xtask test --suite apiserver"]
async fn the_controller_keeps_its_promises_on_a_real_api_server() {
    let mut lab = Lab::start().await;
    // They share the API server, and each leaves it as it was.
    eprintln!("policy becomes profile");
    policies::policy_becomes_profile(&mut lab).await;
    eprintln!("edit and refused edits");
    policies::edit_and_refused_edits(&mut lab).await;
    eprintln!("colliding names");
    policies::colliding_names(&mut lab).await;
    eprintln!("cluster policy");
    policies::cluster_policy(&mut lab).await;
    eprintln!("workloads are rolled once");
    policies::workloads_are_rolled_once(&mut lab).await;
    eprintln!("services are followed");
    policies::services_are_followed(&mut lab).await;
    eprintln!("reports");
    agents::reports(&mut lab).await;
    eprintln!("a stale report does not make ready");
    agents::a_stale_report_does_not_make_ready(&mut lab).await;
    eprintln!("recordings become a model");
    recordings::recordings_become_a_model(&mut lab).await;
    eprintln!("undecodable object");
    trouble::undecodable_object(&mut lab).await;
    eprintln!("conflict");
    trouble::conflict(&mut lab).await;
    eprintln!("the API server restarts");
    trouble::the_api_server_restarts(&mut lab).await;
    eprintln!("deleted while the controller was down");
    trouble::deleted_while_the_controller_was_down(&mut lab).await;
    eprintln!("namespace deleted");
    trouble::namespace_deleted(&mut lab).await;
    eprintln!("the webhook and its certificate");
    admission::the_webhook_and_its_certificate(&mut lab).await;
    eprintln!("one leads");
    trouble::one_leads(&mut lab).await;
}
