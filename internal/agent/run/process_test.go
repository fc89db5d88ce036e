package run_test

// runAsProcess is filled in below.
func runAsProcess() {}
