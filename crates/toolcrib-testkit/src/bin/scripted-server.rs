//! MCP server for tests that runs the script in its first argument.

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    toolcrib_testkit::scripted::stdio::run(&args)
}
