"""What computes for long does so in processes of its own: cutting documents into chunks, building indexes."""
