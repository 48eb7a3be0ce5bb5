package client

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// Workspaces lists the registered workspaces.
func (c *Client) Workspaces(ctx context.Context) ([]palyra.Workspace, error) {
	res, err := c.workspaces().ListWorkspaces(ctx, &v1.ListWorkspacesRequest{})
	return words[palyra.Workspace](res, err, "workspaces")
}

// AddWorkspace registers a directory (signed); name may be empty.
func (c *Client) AddWorkspace(ctx context.Context, path, name string) (palyra.Workspace, error) {
	res, err := c.workspaces().AddWorkspace(ctx, &v1.AddWorkspaceRequest{Path: path, Name: name})
	return word[palyra.Workspace](res.GetWorkspace(), err)
}

// RemoveWorkspace forgets a directory (signed).
func (c *Client) RemoveWorkspace(ctx context.Context, path string) error {
	_, err := c.workspaces().RemoveWorkspace(ctx, &v1.RemoveWorkspaceRequest{Path: path})
	return failure(err)
}

// Agents lists the named agents; removed ones too.
func (c *Client) Agents(ctx context.Context) ([]palyra.Agent, error) {
	res, err := c.access().ListAgents(ctx, &v1.ListAgentsRequest{})
	return words[palyra.Agent](res, err, "agents")
}

// AddAgent names an agent (signed) and returns its token, which is shown this
// once. An empty owner means the one who signs.
func (c *Client) AddAgent(ctx context.Context, name string, owner palyra.Principal) (palyra.Agent, palyra.Secret, error) {
	res, err := c.access().AddAgent(ctx, &v1.AddAgentRequest{Name: name, Owner: string(owner)})
	a, err := word[palyra.Agent](res.GetAgent(), err)
	if err != nil {
		return palyra.Agent{}, palyra.Secret{}, err
	}
	return a, palyra.NewSecret([]byte(res.GetToken())), nil
}

// RemoveAgent ends an agent's credential (signed).
func (c *Client) RemoveAgent(ctx context.Context, agent palyra.Principal) error {
	_, err := c.access().RemoveAgent(ctx, &v1.RemoveAgentRequest{Principal: string(agent)})
	return failure(err)
}

// Operators lists the operators' keys; removed ones too.
func (c *Client) Operators(ctx context.Context) ([]palyra.Operator, error) {
	res, err := c.access().ListOperators(ctx, &v1.ListOperatorsRequest{})
	return words[palyra.Operator](res, err, "operators")
}

// AddOperator makes a person's key known (signed). Principal, Role, PublicKey
// and Separation are read; the daemon fills in the rest.
func (c *Client) AddOperator(ctx context.Context, o palyra.Operator) (palyra.Operator, error) {
	res, err := c.access().AddOperator(ctx, &v1.AddOperatorRequest{
		Principal: string(o.Principal), Role: string(o.Role), PublicKey: o.PublicKey, ApproverSeparation: string(o.Separation),
	})
	return word[palyra.Operator](res.GetOperator(), err)
}

// RemoveOperator ends a key (signed).
func (c *Client) RemoveOperator(ctx context.Context, keyID string) error {
	_, err := c.access().RemoveOperator(ctx, &v1.RemoveOperatorRequest{KeyId: keyID})
	return failure(err)
}

// Keys lists the daemon's signing keys; retired ones too.
func (c *Client) Keys(ctx context.Context) ([]palyra.Key, error) {
	list, err := c.listKeys(ctx)
	return list.Keys, err
}

// keyList is what the daemon tells of its keys.
type keyList struct {
	Keys   []palyra.Key `json:"keys"`
	Places []KeyPlace   `json:"places"`
}

func (c *Client) listKeys(ctx context.Context) (keyList, error) {
	res, err := c.keys().ListKeys(ctx, &v1.ListKeysRequest{})
	return word[keyList](res, err)
}

// KeyPlaces lists where the private halves of the daemon's signing keys are.
func (c *Client) KeyPlaces(ctx context.Context) ([]KeyPlace, error) {
	list, err := c.listKeys(ctx)
	return list.Places, err
}

// MoveKeys moves the private halves that can be moved to the vault or to files, and returns where they are then (signed).
func (c *Client) MoveKeys(ctx context.Context, to string) ([]KeyPlace, error) {
	res, err := c.keys().MoveKeys(ctx, &v1.MoveKeysRequest{To: to})
	return words[KeyPlace](res, err, "places")
}

// ExportKeys returns the public keys as one document for verifiers.
func (c *Client) ExportKeys(ctx context.Context) ([]byte, error) {
	res, err := c.keys().ExportKeys(ctx, &v1.ExportKeysRequest{})
	return res.GetDocument(), failure(err)
}

// RotateKey makes a new signing key for a use (signed).
func (c *Client) RotateKey(ctx context.Context, use palyra.KeyUse) (palyra.Key, error) {
	res, err := c.keys().RotateKey(ctx, &v1.RotateKeyRequest{Use: string(use)})
	return word[palyra.Key](res.GetKey(), err)
}
