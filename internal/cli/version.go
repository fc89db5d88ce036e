package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use: "version", Short: "Print what this program was built from", Args: fits,
		RunE: func(*cobra.Command, []string) error {
			info := version()
			return a.show(info, func() error { return a.say("%s", info.line()) })
		},
	})
}

// line is the version for people.
func (v versionInfo) line() string {
	commit := ""
	if v.Commit != "" {
		commit = " (" + v.Commit + ")"
	}
	return "cairn " + v.Version + commit + ", " + v.Go + ", " + v.Platform
}

// version answers what the Go tool wrote into the program.
func version() versionInfo {
	info := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if built.Main.Version != "" && built.Main.Version != "(devel)" {
		info.Version = built.Main.Version
	}
	for _, setting := range built.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}
