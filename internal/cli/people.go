package cli

import (
	"context"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func newDevice(a *app) *cobra.Command {
	return a.jsonFlag(group("device", "List and remove your devices", []func(*app) *cobra.Command{
		newDeviceList, newDeviceRemove,
	}, a))
}

func newDeviceList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List your devices", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
		devices, err := c.Devices(ctx)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"devices": devices}, func() error {
			rows := make([][]string, len(devices))
			for i, device := range devices {
				online := device.Online != nil && *device.Online
				rows[i] = []string{
					device.ID, string(device.Platform), device.Name, yesNo(online), yesNo(device.HasPushToken), device.LastSeenAt.String(),
				}
			}
			return a.table("DEVICE PLATFORM NAME ONLINE PUSH SEEN", rows, a.narrowDevices()...)
		})
	})
	return cmd
}

func newDeviceRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "rm DEVICE", Short: "Remove a device: its lease and its streams end", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := ownDevice(ctx, c, args[0])
		if err != nil {
			return err
		}
		removed, err := c.DeleteDevice(ctx, id)
		if err != nil {
			return err
		}
		return a.show(removed, func() error { return a.say("device %s is removed", removed.ID) })
	})
	return cmd
}

func newOrg(a *app) *cobra.Command {
	return a.jsonFlag(group("org", "Make organisations and choose their members", []func(*app) *cobra.Command{
		newOrgCreate, newOrgList, newOrgMembers, newOrgAdd, newOrgRemove,
	}, a))
}

func newOrgCreate(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "create NAME", Short: "Make an organisation that you own", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		org, err := c.CreateOrg(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(org, func() error { return a.say("created %s  %s", org.ID, org.Name) })
	})
	return cmd
}

func newOrgList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List your organisations", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
		orgs, err := c.Orgs(ctx)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"orgs": orgs}, func() error {
			rows := make([][]string, len(orgs))
			for i, org := range orgs {
				rows[i] = []string{org.ID, org.Name, string(org.Role), org.OwnerUserID}
			}
			return a.table("ORG NAME ROLE OWNER", rows)
		})
	})
	return cmd
}

func newOrgMembers(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "members ORG", Short: "List the members of an organisation", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		members, err := c.OrgMembers(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(map[string]any{"org_id": args[0], "members": members}, func() error {
			rows := make([][]string, len(members))
			for i, member := range members {
				rows[i] = []string{member.UserID, orDash(member.Email), string(member.Role), member.CreatedAt.String()}
			}
			return a.table("USER EMAIL ROLE SINCE", rows)
		})
	})
	return cmd
}

func newOrgAdd(a *app) *cobra.Command {
	var member client.NewMember
	role := string(wire.OrgMember)
	cmd := &cobra.Command{Use: "add ORG", Short: "Add a member, or change its role", Args: fits}
	cmd.Annotations = map[string]string{needs: "(--user ID | --email ADDRESS)"}
	cmd.Flags().StringVar(&member.UserID, "user", "", "`ID` of the user")
	cmd.Flags().StringVar(&member.Email, "email", "", "`ADDRESS` of the user")
	cmd.Flags().StringVar(&role, "role", role, "`ROLE`: member, admin or owner")
	completeWith(cmd, "role", string(wire.OrgMember), string(wire.OrgAdmin), string(wire.OrgOwner))
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		if (member.UserID == "") == (member.Email == "") {
			return wrongUsage("give exactly one of --user and --email")
		}
		member.Role = wire.OrgRole(role)
		added, err := c.AddOrgMember(ctx, args[0], member)
		if err != nil {
			return err
		}
		return a.show(added, func() error { return a.say("%s is %s of %s", added.UserID, string(added.Role), added.OrgID) })
	})
	return cmd
}

func newOrgRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "remove ORG USER", Short: "Take a member out", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		removed, err := c.RemoveOrgMember(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		return a.show(removed, func() error { return a.say("%s is no longer in %s", removed.UserID, removed.OrgID) })
	})
	return cmd
}
