package cli

import (
	"os"
	"strings"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// The environment of the client commands.
const (
	envURL        = "CAIRN_URL"
	envKey        = "CAIRN_API_KEY"
	envDevice     = "CAIRN_DEVICE"
	envShareToken = "CAIRN_SHARE_TOKEN"

	defaultURL = "http://127.0.0.1:8787"
)

// attempts is how often a read, a control or a dispatch is tried before a failure is reported.
const attempts = 5

func (a *app) baseURL() string {
	if url := a.getenv(envURL); url != "" {
		return url
	}
	return defaultURL
}

// connect answers a client of the server, as the user of the key, on this install's device.
func (a *app) connect() (*client.Client, error) {
	key := a.getenv(envKey)
	if key == "" {
		return nil, wrongUsage("%s is not set: the client needs a key\n"+
			"Each terminal needs it exported. On the server's machine `cairn key add USER` makes another key of yours, and\n"+
			"`cairn user add NAME` a new user with a first one.", envKey)
	}
	if url := a.baseURL(); !strings.Contains(url, "://") {
		return nil, wrongUsage("%s: http:// is missing: http://%s", envURL, url)
	}
	device, err := a.deviceID()
	if err != nil {
		return nil, err
	}
	connected, err := client.New(client.Config{
		BaseURL: a.baseURL(), Key: key, ShareToken: a.getenv(envShareToken), Attempts: attempts,
		Device: client.Device{ID: device, Platform: wire.PlatformCLI, Name: deviceName()},
	})
	if err != nil {
		return nil, wrongUsage("%v\nCheck %s and %s.", err, envURL, envKey)
	}
	return connected, nil
}

func deviceName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "cairn"
	}
	return "cairn on " + host
}
