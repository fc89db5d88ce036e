package workspace_test

func childMain() bool { return false }
