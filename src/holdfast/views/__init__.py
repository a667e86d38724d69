"""What people and programs see about a run, as data and as text. Views only read; they never decide."""
