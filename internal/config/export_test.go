package config

// WorkspaceKeys lists the keys of the Workspace surface alone.
func WorkspaceKeys() []string {
	all := make([]string, len(workspaceTable))
	for i, row := range workspaceTable {
		all[i] = row.key
	}
	return all
}
