"""The built-in studies: TOML, published figures as CSV, and workloads of their own."""
