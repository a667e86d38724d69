"""What people and programs see of a run, as data and as text. Views only read; they never decide."""
