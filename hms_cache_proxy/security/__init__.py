"""What connections are secured with, made from files and made again when these change; users of HTTP."""
