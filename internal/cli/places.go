package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxNamed bounds how many objects are looked through for a name; beyond that only ids name them.
const maxNamed = 10_000

// naming is how an object of the server can be named on the command line.
type naming struct {
	id    string
	names []string
	shown string // beside the id, where several have one name
}

// called finds the one object that is called so, or whose id it is.
func called[T any](kind, ref string, all []T, is func(T) naming) (T, error) {
	var found []T
	for _, one := range all {
		named := is(one)
		if named.id == ref {
			return one, nil
		}
		if slices.ContainsFunc(named.names, func(name string) bool { return strings.EqualFold(name, ref) }) {
			found = append(found, one)
		}
	}
	var none T
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return none, fmt.Errorf("there is no %s %q that you see", kind, ref)
	default:
		lines := make([]string, len(found))
		for i, one := range found {
			named := is(one)
			lines[i] = named.id + "  " + named.shown
		}
		return none, wrongUsage("%d %ss are called %q: name one by its id\n  %s", len(found), kind, ref, strings.Join(lines, "\n  "))
	}
}

// aSpace finds a space by its id or name.
func aSpace(ctx context.Context, c *client.Client, ref string) (wire.Space, error) {
	if id, is := env.ParseID(ref); is {
		return c.Space(ctx, id)
	}
	all, err := client.All(ctx, maxNamed, c.Spaces)
	if err != nil {
		return wire.Space{}, err
	}
	return called("space", ref, all, func(s wire.Space) naming { return naming{s.ID, []string{s.Name}, s.Name} })
}

// aChannel finds a channel by its id, its name with or without #, or SPACE/NAME.
func aChannel(ctx context.Context, c *client.Client, ref string) (wire.Channel, error) {
	if id, is := env.ParseID(ref); is {
		return c.Channel(ctx, id)
	}
	channels, err := allChannels(ctx, c, "")
	if err != nil {
		return wire.Channel{}, err
	}
	spaces, err := client.All(ctx, maxNamed, c.Spaces)
	if err != nil {
		return wire.Channel{}, err
	}
	nameOf := map[string]string{}
	for _, space := range spaces {
		nameOf[space.ID] = space.Name
	}
	return called("channel", ref, channels, func(ch wire.Channel) naming {
		space := nameOf[ch.SpaceID]
		return naming{ch.ID, []string{ch.Name, "#" + ch.Name, space + "/" + ch.Name, space + "/#" + ch.Name}, space + "/" + ch.Name}
	})
}

// freeName answers a channel's name without its #, unless another channel of the space has it.
func freeName(ctx context.Context, c *client.Client, space, name, except string) (string, error) {
	name = strings.TrimPrefix(name, "#")
	there, err := allChannels(ctx, c, space)
	if err != nil {
		return "", err
	}
	for _, one := range there {
		if one.ID == except || !strings.EqualFold(one.Name, name) {
			continue
		}
		if one.ArchivedAt != nil {
			return "", fmt.Errorf("an archived channel of this space is called %s: `cairn channel unarchive %s` brings it back", one.Name, one.ID)
		}
		return "", fmt.Errorf("a channel of this space is called %s already: %s", one.Name, one.ID)
	}
	return name, nil
}

func allChannels(ctx context.Context, c *client.Client, space string) ([]wire.Channel, error) {
	return client.All(ctx, maxNamed, func(ctx context.Context, at client.Paging) (wire.Page[wire.Channel], error) {
		return c.Channels(ctx, space, at)
	})
}

// aThread finds a thread by its id, or the main one of a channel by the channel's name or id.
func aThread(ctx context.Context, c *client.Client, ref string) (string, error) {
	if id, is := env.ParseID(ref); is {
		thread, err := c.Thread(ctx, id)
		if err == nil {
			return thread.ID, nil
		}
		if !client.IsCode(err, code.NotFound) {
			return "", err
		}
	}
	channel, err := aChannel(ctx, c, ref)
	if client.IsCode(err, code.NotFound) {
		return "", fmt.Errorf("not found: there is no thread and no channel %s that you see", ref)
	}
	if err != nil {
		return "", err
	}
	if channel.MainThreadID == "" {
		return "", wrongUsage("%s is a forum, which has only posts: `cairn ws threads %s` lists them", channel.Name, ref)
	}
	return channel.MainThreadID, nil
}

// people answers the persons, agents and apps the caller sees.
func people(ctx context.Context, c *client.Client) ([]wire.Principal, error) {
	var all []wire.Principal
	for _, kind := range []wire.Kind{wire.KindUser, wire.KindAgent, wire.KindApp} {
		some, err := client.All(ctx, maxNamed, func(ctx context.Context, at client.Paging) (wire.Page[wire.Principal], error) {
			return c.Principals(ctx, kind, at)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// aPrincipal finds somebody by id, handle with or without @, or name.
func aPrincipal(ctx context.Context, c *client.Client, ref string) (wire.Principal, error) {
	all, err := people(ctx, c)
	if err != nil {
		return wire.Principal{}, err
	}
	if id, is := env.ParseID(ref); is {
		ref = id
	}
	for _, one := range all {
		if one.Handle == strings.TrimPrefix(ref, "@") {
			return one, nil // it is unique, names are not
		}
	}
	return called("person", ref, all, func(p wire.Principal) naming { return naming{p.ID, []string{p.DisplayName}, "@" + p.Handle} })
}

// aGroup finds a group by id or name.
func aGroup(ctx context.Context, c *client.Client, ref string) (wire.Group, error) {
	if id, is := env.ParseID(ref); is {
		return c.Group(ctx, id)
	}
	all, err := client.All(ctx, maxNamed, c.Groups)
	if err != nil {
		return wire.Group{}, err
	}
	return called("group", ref, all, func(g wire.Group) naming { return naming{g.ID, []string{g.Name}, g.Name} })
}

// placeBook knows what spaces, channels and groups are called, by id.
type placeBook map[string]string

// placesOf reads the names. What cannot be read is shown by its id.
func placesOf(ctx context.Context, c *client.Client) placeBook {
	book := placeBook{}
	if spaces, err := client.All(ctx, maxNamed, c.Spaces); err == nil {
		for _, space := range spaces {
			book[space.ID] = space.Name
		}
	}
	if channels, err := allChannels(ctx, c, ""); err == nil {
		for _, channel := range channels {
			book[channel.ID] = book.of(channel.SpaceID) + "/#" + channel.Name
		}
	}
	if groups, err := client.All(ctx, maxNamed, c.Groups); err == nil {
		for _, one := range groups {
			book[one.ID] = one.Name
		}
	}
	return book
}

// of answers a name, or the id of what is unknown.
func (b placeBook) of(id string) string {
	if name := b[id]; name != "" {
		return name
	}
	return id
}

// target names what a grant is on.
func (b placeBook) target(t wire.Target) string {
	if t.ID == "" {
		return "everything"
	}
	return string(t.Kind) + " " + b.of(t.ID)
}
