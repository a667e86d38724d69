"""The dashboard's server: the page, the JSON behind it, and live streams of what happens. It reads, and starts commands.

Only `serve` loads it, and with it starlette and uvicorn.
"""
