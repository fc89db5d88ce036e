package config

import (
	"fmt"
	"strings"
)

const markdownHead = `# Configuration

This page is generated from the table in ` + "`internal/config`" + ` (` + "`make docs`" + `).

A value comes from its default, then a YAML file (` + "`--config FILE`" + ` or ` + "`CAIRN_CONFIG`" + `), then the
environment, then ` + "`--set key=value`" + `, then a flag of its own; the later one wins. In YAML the parts of a key
are nested. A list is separated by commas outside YAML. ` + "`cairn config`" + ` shows every value and where it came from. A
wrong value or an unknown name stops the server before it starts. In the environment an empty variable counts as unset,
and an unknown one that begins with ` + "`CAIRN_`" + ` is a warning in the log: Kubernetes, for one, sets ` + "`CAIRN_PORT`" + ` for a service
called cairn.

| key | default | allowed | environment | meaning |
| --- | --- | --- | --- | --- |
`

// Markdown answers docs/configuration.md.
func Markdown() string {
	var page strings.Builder
	page.WriteString(markdownHead)
	for _, row := range table {
		fallback := "empty"
		if row.fallback != "" {
			fallback = "`" + row.fallback + "`"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | `%s` | %s |\n", row.key, fallback, row.kind.allowed, EnvName(row.key), row.doc)
	}
	return page.String()
}
