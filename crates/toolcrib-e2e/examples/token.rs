//! Prints a server's token: `token FOLDER ADDRESS` loads it from the credential folder and renews it if it is
//! due.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own")]

use std::error::Error;

use toolcrib_upstream::auth::{Accounts, ClientSettings, ProtectedServer};
use toolcrib_upstream::secrets::{CredentialStore, StorageMode};
use toolcrib_upstream::transport::Tls;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(address)) = (args.next(), args.next()) else {
        return Err("usage: token FOLDER ADDRESS".into());
    };
    let accounts =
        Accounts::new(CredentialStore::open(folder.into(), StorageMode::File), Tls::default());
    let server = ProtectedServer {
        id: "it".to_owned(),
        url: address.parse()?,
        headers: Default::default(),
        is_sse: false,
        agent: None,
        client: ClientSettings { is_configured: true, ..ClientSettings::unconfigured() },
    };
    let token = accounts.tokens(server).fetch_token().await?;
    println!("{}", token.ok_or("there is no token")?.reveal());
    Ok(())
}
