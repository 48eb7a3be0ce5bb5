package client

import (
	"context"
	"time"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

type (
	// Me is who a caller is to the daemon.
	Me = wire.Me
	// RoleInfo is a role with what it may do.
	RoleInfo = wire.RoleInfo
)

// PairDevice shows a code (signed) and calls f with the states of the pairing, to its end. The code
// is withdrawn when ctx ends or f fails.
func (c *Client) PairDevice(ctx context.Context, p palyra.Principal, role palyra.Role, f func(palyra.Pairing) error) error {
	return c.pair(ctx, &v1.PairDeviceRequest{Principal: string(p), Role: string(role)}, f)
}

// PairBrowser is PairDevice for a browser on the daemon's machine, which is to be the signer's.
func (c *Client) PairBrowser(ctx context.Context, role palyra.Role, f func(palyra.Pairing) error) error {
	return c.pair(ctx, &v1.PairDeviceRequest{Role: string(role), Browser: true}, f)
}

func (c *Client) pair(ctx context.Context, req *v1.PairDeviceRequest, f func(palyra.Pairing) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.devices().PairDevice(ctx, req)
	return receiveAll(stream, err, func(m *v1.PairDeviceResponse) error {
		w, err := word[palyra.Pairing](m.GetPairing(), nil)
		if err != nil {
			return err
		}
		return f(w)
	})
}

// Devices lists the paired devices, also revoked ones.
func (c *Client) Devices(ctx context.Context) ([]palyra.Device, error) {
	res, err := c.devices().ListDevices(ctx, &v1.ListDevicesRequest{})
	return words[palyra.Device](res, err, "devices")
}

// Device returns a device by its id or name.
func (c *Client) Device(ctx context.Context, idOrName string) (palyra.Device, error) {
	res, err := c.devices().GetDevice(ctx, &v1.GetDeviceRequest{Device: idOrName})
	return word[palyra.Device](res.GetDevice(), err)
}

// RevokeDevice ends a device at once (signed).
func (c *Client) RevokeDevice(ctx context.Context, id string) (palyra.Device, error) {
	res, err := c.devices().RevokeDevice(ctx, &v1.RevokeDeviceRequest{DeviceId: id})
	return word[palyra.Device](res.GetDevice(), err)
}

// Users lists the people, also removed ones.
func (c *Client) Users(ctx context.Context) ([]palyra.User, error) {
	res, err := c.access().ListUsers(ctx, &v1.ListUsersRequest{})
	return words[palyra.User](res, err, "users")
}

// AddUser makes a person known (signed).
func (c *Client) AddUser(ctx context.Context, u palyra.User) (palyra.User, error) {
	res, err := c.access().AddUser(ctx, &v1.AddUserRequest{Principal: string(u.Principal), Role: string(u.Role), Workspaces: u.Workspaces})
	return word[palyra.User](res.GetUser(), err)
}

// ChangeUser gives a person another role or other workspaces (signed).
func (c *Client) ChangeUser(ctx context.Context, u palyra.User) (palyra.User, error) {
	res, err := c.access().ChangeUser(ctx, &v1.ChangeUserRequest{
		Principal: string(u.Principal), Role: string(u.Role), Workspaces: u.Workspaces,
	})
	return word[palyra.User](res.GetUser(), err)
}

// RemoveUser removes a person with all their keys, devices and tokens (signed).
func (c *Client) RemoveUser(ctx context.Context, p palyra.Principal) error {
	_, err := c.access().RemoveUser(ctx, &v1.RemoveUserRequest{Principal: string(p)})
	return failure(err)
}

// Tokens lists the API tokens without their secret text, also revoked ones.
func (c *Client) Tokens(ctx context.Context) ([]palyra.Token, error) {
	res, err := c.access().ListTokens(ctx, &v1.ListTokensRequest{})
	return words[palyra.Token](res, err, "tokens")
}

// AddToken makes an API token (signed). Its text is in the answer and nowhere else.
func (c *Client) AddToken(ctx context.Context, t palyra.Token, ttl time.Duration) (palyra.Token, palyra.Secret, error) {
	res, err := c.access().AddToken(ctx, &v1.AddTokenRequest{
		Name: t.Name, Principal: string(t.Principal), Scopes: wire.Words[string](t.Scopes), Workspaces: t.Workspaces, TtlMs: ttl.Milliseconds(),
	})
	entry, err := word[palyra.Token](res.GetEntry(), err)
	if err != nil {
		return palyra.Token{}, palyra.Secret{}, err
	}
	return entry, palyra.NewSecret([]byte(res.GetToken())), nil
}

// RevokeToken ends a token at once (signed).
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, err := c.access().RevokeToken(ctx, &v1.RevokeTokenRequest{TokenId: id})
	return failure(err)
}

// Roles lists the roles with their permissions.
func (c *Client) Roles(ctx context.Context) ([]RoleInfo, error) {
	res, err := c.access().ListRoles(ctx, &v1.ListRolesRequest{})
	list, err := words[RoleInfo](res, err, "roles")
	for i := range list {
		if list[i].Permissions == nil {
			list[i].Permissions = []palyra.Permission{} // a role without permissions has an empty list, not null
		}
	}
	return list, err
}

// WhoAmI returns the principal that the daemon takes this client for.
func (c *Client) WhoAmI(ctx context.Context) (Me, error) {
	res, err := c.access().WhoAmI(ctx, &v1.WhoAmIRequest{})
	return word[Me](res.GetMe(), err)
}

// OpenConsole makes a link that signs one browser on the daemon's machine in, once, for reading only.
func (c *Client) OpenConsole(ctx context.Context) (url string, ends time.Time, err error) {
	return c.OpenConsoleAt(ctx, "")
}

// OpenConsoleAt is OpenConsole by a door for browsers of other machines: https or plain.
func (c *Client) OpenConsoleAt(ctx context.Context, door string) (url string, ends time.Time, err error) {
	res, err := c.access().OpenConsole(ctx, &v1.OpenConsoleRequest{Door: door})
	if err != nil {
		return "", time.Time{}, failure(err)
	}
	return res.GetUrl(), res.GetExpiresAt().AsTime(), nil
}
