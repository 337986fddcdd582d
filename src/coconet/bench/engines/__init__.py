"""What is compared: one file per engine, and the table that names them."""
