package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

const (
	envPrefix = "CAIRN_"
	envFile   = "CAIRN_CONFIG"
)

// foreign are the variables with our prefix that belong to clients and tests.
var foreign = map[string]bool{
	"CAIRN_URL": true, "CAIRN_API_KEY": true, "CAIRN_DEVICE": true, "CAIRN_SHARE_TOKEN": true, envFile: true,
}

const foreignTests = "CAIRN_TEST_"

// Sources is where values come from. Later fields win over earlier ones.
type Sources struct {
	File  string            // path of a YAML file; "" reads the one CAIRN_CONFIG names, if any
	Env   []string          // NAME=value, as of os.Environ
	Set   []string          // key=value, as of --set; a later one wins
	Flags map[string]string // key to value, for flags that were given
}

// Value is one setting as it is in force, fit to be shown: secrets are taken out.
type Value struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Source  string `json:"source"` // default, file PATH, environment NAME, --set or flag
	Default string `json:"default"`
	Doc     string `json:"doc"`
}

// Load reads every source and answers the configuration and, in the order of the table, what each
// value is and where it came from. Its error is an *Error that names every wrong value of every source,
// also those that a later source replaces, or says why the file cannot be read.
func Load(from Sources) (Config, []Value, error) {
	given, problems, err := collect(from)
	if err != nil {
		return Config{}, nil, err
	}
	loaded, sources, wrong := apply(given)
	problems = append(problems, wrong...)
	if len(problems) == 0 {
		problems = append(problems, together(loaded, sources)...)
	}
	if len(problems) > 0 {
		return Config{}, nil, &Error{Problems: problems}
	}
	return loaded, describe(loaded, sources), nil
}

// Defaults answers every setting as it is when nothing is given, in the order of the table.
func Defaults() []Value {
	loaded, sources, _ := apply(nil)
	return describe(loaded, sources)
}

// assignment is a value that a source gives to a known key.
type assignment struct {
	setting setting
	text    string
	source  string
}

// gathering collects assignments in the order in which they count.
type gathering struct {
	given    []assignment
	problems []Problem
}

func collect(from Sources) ([]assignment, []Problem, error) {
	var found gathering
	if err := found.file(from); err != nil {
		return nil, nil, err
	}
	found.environment(from.Env)
	for _, pair := range from.Set {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			found.problems = append(found.problems, Problem{Key: key, Source: "--set", Allowed: "key=value"})
			continue
		}
		found.add(strings.TrimSpace(key), value, "--set")
	}
	for _, row := range table {
		if value, ok := from.Flags[row.key]; ok {
			found.add(row.key, value, "flag")
		}
	}
	return found.given, found.problems, nil
}

func (g *gathering) add(key, text, source string) {
	row, ok := lookup(key)
	if !ok {
		g.problems = append(g.problems, Problem{Key: key, Source: source, Unknown: true, Suggestion: nearest(key, Keys())})
		return
	}
	g.given = append(g.given, assignment{row, text, source})
}

// environment takes what is known. An empty variable says nothing: that is how many tools leave one out.
func (g *gathering) environment(env []string) {
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if row, ok := lookupEnv(name); ok && value != "" {
			g.given = append(g.given, assignment{row, value, "environment " + name})
		}
	}
}

// Ignored answers the variables that begin with CAIRN_ and that nobody knows, in their order. They stop nothing, because
// others choose such names too (Kubernetes sets CAIRN_PORT for a service called cairn), but one may be misspelt.
func Ignored(env []string) []Problem {
	var ignored []Problem
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		_, known := lookupEnv(name)
		if known || value == "" || !strings.HasPrefix(name, envPrefix) || foreign[name] || strings.HasPrefix(name, foreignTests) {
			continue
		}
		ignored = append(ignored, Problem{Key: name, Source: "environment", Unknown: true, Suggestion: nearest(name, envNames())})
	}
	return ignored
}

func (g *gathering) file(from Sources) error {
	path := from.File
	for _, pair := range from.Env {
		if named, ok := strings.CutPrefix(pair, envFile+"="); ok && path == "" {
			path = named
		}
	}
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration file: %w", err)
	}
	tree := koanf.New(".")
	if err := tree.Load(rawbytes.Provider(content), yaml.Parser()); err != nil {
		return fmt.Errorf("read configuration file %s: %w", path, err)
	}
	for _, key := range tree.Keys() {
		g.fileValue(key, tree.Get(key), "file "+path)
	}
	return nil
}

// fileValue adds a value as YAML gave it. A section without anything in it says nothing.
func (g *gathering) fileValue(key string, value any, source string) {
	switch value := value.(type) {
	case nil:
		if !isSection(key) {
			g.add(key, "", source)
		}
	case map[string]any:
		if !isSection(key) || len(value) > 0 {
			g.add(key, "(a section)", source)
		}
	case []any:
		parts := make([]string, len(value))
		for i, part := range value {
			parts[i] = fmt.Sprint(part)
		}
		g.add(key, strings.Join(parts, ","), source)
	default:
		g.add(key, fmt.Sprint(value), source)
	}
}

// apply sets defaults, then what was given, and answers the source of each key.
func apply(given []assignment) (Config, map[string]string, []Problem) {
	var (
		loaded   Config
		problems []Problem
	)
	sources := make(map[string]string, len(table))
	for _, row := range table {
		row.kind.set(&loaded, row.fallback)
		sources[row.key] = "default"
	}
	for _, one := range given {
		if !one.setting.kind.set(&loaded, one.text) {
			problems = append(problems, Problem{
				Key: one.setting.key, Value: one.setting.kind.public(one.text), Source: one.source, Allowed: one.setting.kind.allowed,
				Suggestion: one.setting.kind.instead(one.text),
			})
		}
		sources[one.setting.key] = one.source
	}
	return loaded, sources, problems
}

// together answers what values that are fine alone break in combination.
func together(loaded Config, sources map[string]string) []Problem {
	var problems []Problem
	for _, r := range rules {
		if allowed := r.broken(loaded); allowed != "" {
			row, _ := lookup(r.key)
			problems = append(problems, Problem{
				Key: r.key, Value: row.kind.public(row.kind.show(loaded)), Source: sources[r.key], Allowed: allowed,
			})
		}
	}
	return problems
}

func describe(loaded Config, sources map[string]string) []Value {
	values := make([]Value, 0, len(table))
	for _, row := range table {
		values = append(values, Value{
			Key: row.key, Value: row.kind.public(row.kind.show(loaded)), Source: sources[row.key],
			Default: row.fallback, Doc: row.doc,
		})
	}
	return values
}
