package client

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// RunDoctor has the daemon probe its sandbox tiers (signed); without a tier, all of them. It takes some seconds.
func (c *Client) RunDoctor(ctx context.Context, tiers ...palyra.Tier) (palyra.SignedPosture, error) {
	req := &v1.RunDoctorRequest{}
	for _, t := range tiers {
		req.Tiers = append(req.Tiers, string(t))
	}
	res, err := c.sandbox().RunDoctor(ctx, req)
	return word[palyra.SignedPosture](res.GetPosture(), err)
}

// Postures returns the latest posture of each tier, or the one with that digest.
func (c *Client) Postures(ctx context.Context, digest palyra.Digest) ([]palyra.SignedPosture, error) {
	res, err := c.sandbox().GetPosture(ctx, &v1.GetPostureRequest{Digest: string(digest)})
	return words[palyra.SignedPosture](res, err, "postures")
}
