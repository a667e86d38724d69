"""The terminal view, on a real terminal that tmux keeps."""
