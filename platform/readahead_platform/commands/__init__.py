"""The commands, one module for each word after `readahead`."""
