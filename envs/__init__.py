"""The environments that come with torch_batchsim, one folder each."""
