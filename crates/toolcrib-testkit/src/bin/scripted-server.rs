//! An MCP server that does what the script in its first argument says.

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    toolcrib_testkit::scripted::stdio::run(&args)
}
