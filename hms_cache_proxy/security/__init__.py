"""What secures connections (TLS, Kerberos, passwords, tokens), made from files and made again when these change; users
of HTTP."""
