"""`coconet demo`: train a small model with our Adam, beside what people use today."""
