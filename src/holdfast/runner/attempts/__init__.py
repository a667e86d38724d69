"""One attempt: start an agent in its workspace, listen to it, collect what it left."""
