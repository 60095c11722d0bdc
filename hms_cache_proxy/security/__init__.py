"""What connections are secured with: contexts of TLS, made from files and made again when these change."""
