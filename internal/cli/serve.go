package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/server"
)

func newServe(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "Run the server", Args: fits}
	cmd.Long = `Run the server until it is told to stop (SIGTERM or SIGINT): then it finishes what it has begun, ends streams
cleanly and leaves leases to their holders. A second signal ends it at once.`
	from := settingsFlags(cmd, map[string]string{"listen": "listen", "database": "database", "ready_file": "ready-file"})
	keep := cmd.Flags().Bool("no-migrate", false, "refuse an old schema instead of updating it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		more := map[string]string{}
		if *keep {
			more["storage.migrate"] = "false"
		}
		loaded, values, err := from.load(a, cmd.Flags(), more)
		if err != nil {
			return err
		}
		log := newLog(a.errs, loaded.Log)
		logChanged(log, values)
		for _, ignored := range config.Ignored(a.environ) {
			log.Warn("ignored a variable of the environment", "variable", ignored.String())
		}
		return a.serve(cmd.Context(), loaded, log)
	}
	return cmd
}

// serve runs a server until ctx ends, then stops it in the time it has for that.
func (a *app) serve(ctx context.Context, loaded config.Config, log *slog.Logger) error {
	begins := isNew(ctx, loaded.Database)
	made, err := server.New(ctx, server.Options{Config: loaded, Log: log, Env: a.env})
	if err != nil {
		return err
	}
	if begins {
		log.Info("made " + databaseName(loaded.Database))
	}
	failure := whileServing(ctx, made, loaded, log)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), loaded.ShutdownTimeout)
	defer cancel()
	failure = errors.Join(failure, removeReady(loaded.ReadyFile), made.Stop(stopping))
	if failure == nil {
		log.Info("stopped")
	}
	return failure
}

// whileServing starts the server and returns when ctx ends, which is no failure, or when it cannot go on.
func whileServing(ctx context.Context, made *server.Server, loaded config.Config, log *slog.Logger) error {
	if err := removeReady(loaded.ReadyFile); err != nil {
		return err
	}
	if err := made.Start(ctx); err != nil {
		return err
	}
	log.Info("cairn serves", "url", made.URL(), "database", config.RedactDatabase(loaded.Database), "version", version().Version)
	if err := writeReady(loaded.ReadyFile, made.URL()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		log.Info("stopping", "at_most", loaded.ShutdownTimeout)
		return nil
	case err := <-made.Failed():
		return err
	}
}

// newLog answers the log of a server. Nothing of it is secret: keys, tokens and payloads are never logged.
func newLog(to io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // not reached: the configuration allows four names
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// logChanged writes down what differs from the defaults, so that a log explains itself.
func logChanged(log *slog.Logger, values []config.Value) {
	for _, value := range values {
		if value.Source != "default" {
			log.Debug("configured", "key", value.Key, "value", value.Value, "source", value.Source)
		}
	}
}

// writeReady tells whoever waits for the file where the server is. The file appears complete.
func writeReady(path, url string) error {
	if path == "" {
		return nil
	}
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	_, err = draft.WriteString(url + "\n")
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write ready file: %w", errors.Join(err, os.Remove(draft.Name())))
	}
	return nil
}

// removeReady takes away a file that is no longer, or not yet, true.
func removeReady(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ready file: %w", err)
	}
	return nil
}
