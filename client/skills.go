package client

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/skill"
)

// Skills lists installed skills.
func (c *Client) Skills(ctx context.Context) ([]skill.Skill, error) {
	res, err := c.skills().ListSkills(ctx, &v1.ListSkillsRequest{})
	return words[skill.Skill](res, err, "skills")
}

// Skill returns one.
func (c *Client) Skill(ctx context.Context, id string) (skill.Skill, error) {
	res, err := c.skills().GetSkill(ctx, &v1.GetSkillRequest{Id: id})
	return word[skill.Skill](res.GetSkill(), err)
}

// InstallSkill sends a package to be installed (signed); widen: it may ask for more than what is installed.
func (c *Client) InstallSkill(ctx context.Context, raw []byte, widen bool) (skill.Skill, error) {
	digest := string(palyra.SumBytes(raw))
	for at := 0; ; {
		part := raw[at:min(at+skill.MaxPart, len(raw))]
		res, err := c.skills().InstallSkill(ctx, &v1.InstallSkillRequest{
			Part: part, Offset: int64(at), Size: int64(len(raw)), Digest: digest, Widen: widen,
		})
		if at += len(part); err != nil || at >= len(raw) {
			return word[skill.Skill](res.GetSkill(), err)
		}
	}
}

// EnableSkill makes a skill active with what is granted (signed), of the package that was looked at.
func (c *Client) EnableSkill(ctx context.Context, id string, digest palyra.Digest, granted skill.Capabilities) (skill.Skill, error) {
	res, err := c.skills().EnableSkill(ctx, &v1.EnableSkillRequest{
		Id: id, Digest: string(digest), Granted: &v1.SkillCapabilities{
			Hosts: granted.Hosts, Secrets: granted.Secrets, Storage: granted.Storage, Tools: granted.Tools, Channels: granted.Channels,
			Programs: granted.Programs, Read: granted.Read, Write: granted.Write,
		},
	})
	return word[skill.Skill](res.GetSkill(), err)
}

// QuarantineSkill takes the tools of a skill away (signed).
func (c *Client) QuarantineSkill(ctx context.Context, id string) (skill.Skill, error) {
	res, err := c.skills().QuarantineSkill(ctx, &v1.QuarantineSkillRequest{Id: id})
	return word[skill.Skill](res.GetSkill(), err)
}

// ShrinkSkill says what the recorded runs of a skill needed, and grants that and no more where apply is set (signed).
func (c *Client) ShrinkSkill(ctx context.Context, id string, apply bool) (skill.Shrinking, error) {
	res, err := c.skills().ShrinkSkill(ctx, &v1.ShrinkSkillRequest{Id: id, Apply: apply})
	return word[skill.Shrinking](res.GetShrinking(), err)
}

// RemoveSkill takes a skill away (signed); forget: and whose its id is.
func (c *Client) RemoveSkill(ctx context.Context, id string, forget bool) error {
	_, err := c.skills().RemoveSkill(ctx, &v1.RemoveSkillRequest{Id: id, Forget: forget})
	return failure(err)
}

// TrustPublisher lets skills be installed that a key signed (signed).
func (c *Client) TrustPublisher(ctx context.Context, name, key string) (skill.Publisher, error) {
	res, err := c.skills().TrustPublisher(ctx, &v1.TrustPublisherRequest{Name: name, PublicKey: key})
	return word[skill.Publisher](res.GetPublisher(), err)
}

// RevokePublisher takes the trust in a key back, and all its skills with it (signed).
func (c *Client) RevokePublisher(ctx context.Context, keyID string) (skill.Publisher, error) {
	res, err := c.skills().RevokePublisher(ctx, &v1.RevokePublisherRequest{KeyId: keyID})
	return word[skill.Publisher](res.GetPublisher(), err)
}

// Publishers lists the keys that are trusted to publish skills, and those that were.
func (c *Client) Publishers(ctx context.Context) ([]skill.Publisher, error) {
	res, err := c.skills().ListPublishers(ctx, &v1.ListPublishersRequest{})
	return words[skill.Publisher](res, err, "publishers")
}
