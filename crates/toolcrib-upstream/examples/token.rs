//! A process that needs a token: `token FOLDER ADDRESS` takes it from what is kept in the folder, renews it where it
//! is due, and prints it.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own")]

use std::error::Error;

use toolcrib_upstream::auth::{Accounts, ClientSettings, Protected};
use toolcrib_upstream::secrets::{Keep, Storage};
use toolcrib_upstream::transport::Tls;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(address)) = (args.next(), args.next()) else {
        return Err("usage: token FOLDER ADDRESS".into());
    };
    let accounts = Accounts::new(Keep::open(folder.into(), Storage::File), Tls::default());
    let server = Protected {
        id: "it".to_owned(),
        url: address.parse()?,
        headers: Default::default(),
        is_sse: false,
        agent: None,
        client: ClientSettings { is_configured: true, ..ClientSettings::unconfigured() },
    };
    let token = accounts.tokens(server).token().await?;
    println!("{}", token.ok_or("there is no token")?.reveal());
    Ok(())
}
