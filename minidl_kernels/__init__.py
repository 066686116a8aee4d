"""How things are computed: raw arrays in, raw arrays out. Never imports minidl."""
