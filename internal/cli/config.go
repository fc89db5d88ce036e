package cli

import (
	"maps"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairnsync/cairn/internal/config"
)

// settings are the flags that say where a command's configuration comes from.
type settings struct {
	file string
	set  []string
	own  map[string]string // key of the configuration to the flag that sets it
}

// settingsFlags gives a command --config and --set, and a flag of its own for each key in own.
func settingsFlags(cmd *cobra.Command, own map[string]string) *settings {
	s := &settings{own: own}
	flags := cmd.Flags()
	flags.StringVar(&s.file, "config", "", "YAML `FILE` to read (default: the one CAIRN_CONFIG names)")
	flags.StringArrayVar(&s.set, "set", nil, "`KEY=VALUE` of the configuration; may be repeated")
	for _, value := range config.Defaults() {
		if name, ok := own[value.Key]; ok {
			flags.String(name, "", value.Doc+" (default "+quotedOrEmpty(value.Default)+")")
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("set", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		keys := config.Keys()
		for i := range keys {
			keys[i] += "="
		}
		return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}) // fails only for a flag that is not there
	return s
}

func quotedOrEmpty(text string) string {
	if text == "" {
		return "empty"
	}
	return text
}

// load reads the configuration. more holds values that other flags stand for.
func (s *settings) load(a *app, flags *pflag.FlagSet, more map[string]string) (config.Config, []config.Value, error) {
	given := map[string]string{}
	for key, name := range s.own {
		if flag := flags.Lookup(name); flag.Changed {
			given[key] = flag.Value.String()
		}
	}
	maps.Copy(given, more)
	return config.Load(config.Sources{File: s.file, Env: a.environ, Set: s.set, Flags: given})
}

var databaseFlag = map[string]string{"database": "database"}

func newConfig(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Print every value of the server's configuration and where it came from", Args: fits,
	}
	from := settingsFlags(cmd, databaseFlag)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, values, err := from.load(a, cmd.Flags(), nil)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"values": values}, func() error {
			rows := make([][]string, len(values))
			for i, value := range values {
				rows[i] = []string{value.Key, quotedOrEmpty(value.Value), value.Source}
			}
			return a.table("KEY VALUE SOURCE", rows)
		})
	}
	return a.jsonFlag(cmd)
}
