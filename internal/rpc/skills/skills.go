// Package skills serves SkillService: installed skills, and whose keys are trusted to publish them.
package skills

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
	"palyra/internal/skill"
)

// Skills keeps skills.
type Skills interface {
	// Install verifies a package and takes it in.
	Install(ctx context.Context, a skill.Addition) (skill.Skill, error)
	// Enable makes a skill active.
	Enable(ctx context.Context, e skill.Enabling) (skill.Skill, error)
	// Quarantine takes its tools away.
	Quarantine(ctx context.Context, id string, by skill.By) (skill.Skill, error)
	// Remove takes it away; forget: and whose the id is.
	Remove(ctx context.Context, id string, forget bool, by skill.By) error
	// Shrink says what its runs needed; apply: and grants that.
	Shrink(ctx context.Context, id string, apply bool, by skill.By) (skill.Shrinking, error)
}

// Publishers keeps keys.
type Publishers interface {
	// Trust lets skills be installed that a key signed.
	Trust(ctx context.Context, name, key string, by skill.By) (skill.Publisher, error)
	// Revoke takes that back.
	Revoke(ctx context.Context, keyID string, by skill.By) (skill.Publisher, error)
	// Publishers lists them.
	Publishers(ctx context.Context) ([]skill.Publisher, error)
}

// Shelf is where skills are looked at.
type Shelf interface {
	// List returns all, by their ids.
	List(ctx context.Context) ([]skill.Skill, error)
	// Find returns one.
	Find(id string) (skill.Skill, error)
}

// Registry is all of it.
type Registry interface {
	Skills
	Publishers
	Shelf
}

// Service serves SkillService.
type Service struct {
	skills  Registry
	lesser  func(a, b palyra.Role) palyra.Role
	uploads uploads
}

// New returns the service. Where a credential has a cap, what its bearer may do with skills is the lesser of both.
func New(r Registry, lesser func(a, b palyra.Role) palyra.Role) *Service {
	return &Service{skills: r, lesser: lesser}
}

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewSkillServiceHandler(s, opts...)
}

func (s *Service) callerOf(ctx context.Context) skill.By {
	who := rpc.CallerOf(ctx)
	return skill.By{Principal: who.Principal, Role: s.lesser(who.Role, who.Cap), Signature: who.Evidence}
}

// InstallSkill implements the method.
func (s *Service) InstallSkill(ctx context.Context, req *v1.InstallSkillRequest) (*v1.InstallSkillResponse, error) {
	by := s.callerOf(ctx)
	raw, err := s.uploads.take(by.Principal, req)
	if err != nil {
		return nil, err
	}
	res := &v1.InstallSkillResponse{Received: req.GetOffset() + int64(len(req.GetPart()))}
	if raw == nil { // there is more to come
		return res, nil
	}
	one, err := s.skills.Install(ctx, skill.Addition{Package: raw, Widen: req.GetWiden(), By: by})
	res.Skill = &v1.Skill{}
	return wire.Answer(res, res.GetSkill(), one, err)
}

// ListSkills implements the method.
func (s *Service) ListSkills(ctx context.Context, _ *v1.ListSkillsRequest) (*v1.ListSkillsResponse, error) {
	all, err := s.skills.List(ctx)
	res := &v1.ListSkillsResponse{}
	return wire.Answer(res, res, map[string]any{"skills": all}, err)
}

// GetSkill implements the method.
func (s *Service) GetSkill(_ context.Context, req *v1.GetSkillRequest) (*v1.GetSkillResponse, error) {
	one, err := s.skills.Find(req.GetId())
	res := &v1.GetSkillResponse{Skill: &v1.Skill{}}
	return wire.Answer(res, res.GetSkill(), one, err)
}

// EnableSkill implements the method.
func (s *Service) EnableSkill(ctx context.Context, req *v1.EnableSkillRequest) (*v1.EnableSkillResponse, error) {
	g := req.GetGranted()
	one, err := s.skills.Enable(ctx, skill.Enabling{
		ID: req.GetId(), Digest: palyra.Digest(req.GetDigest()), By: s.callerOf(ctx),
		Granted: skill.Capabilities{
			Hosts: g.GetHosts(), Secrets: g.GetSecrets(), Storage: g.GetStorage(), Tools: g.GetTools(), Channels: g.GetChannels(),
			Programs: g.GetPrograms(), Read: g.GetRead(), Write: g.GetWrite(),
		},
	})
	res := &v1.EnableSkillResponse{Skill: &v1.Skill{}}
	return wire.Answer(res, res.GetSkill(), one, err)
}

// QuarantineSkill implements the method.
func (s *Service) QuarantineSkill(ctx context.Context, req *v1.QuarantineSkillRequest) (*v1.QuarantineSkillResponse, error) {
	one, err := s.skills.Quarantine(ctx, req.GetId(), s.callerOf(ctx))
	res := &v1.QuarantineSkillResponse{Skill: &v1.Skill{}}
	return wire.Answer(res, res.GetSkill(), one, err)
}

// ShrinkSkill implements the method.
func (s *Service) ShrinkSkill(ctx context.Context, req *v1.ShrinkSkillRequest) (*v1.ShrinkSkillResponse, error) {
	one, err := s.skills.Shrink(ctx, req.GetId(), req.GetApply(), s.callerOf(ctx))
	res := &v1.ShrinkSkillResponse{Shrinking: &v1.SkillShrinking{}}
	return wire.Answer(res, res.GetShrinking(), one, err)
}

// RemoveSkill implements the method.
func (s *Service) RemoveSkill(ctx context.Context, req *v1.RemoveSkillRequest) (*v1.RemoveSkillResponse, error) {
	return &v1.RemoveSkillResponse{}, s.skills.Remove(ctx, req.GetId(), req.GetForget(), s.callerOf(ctx))
}

// TrustPublisher implements the method.
func (s *Service) TrustPublisher(ctx context.Context, req *v1.TrustPublisherRequest) (*v1.TrustPublisherResponse, error) {
	one, err := s.skills.Trust(ctx, req.GetName(), req.GetPublicKey(), s.callerOf(ctx))
	res := &v1.TrustPublisherResponse{Publisher: &v1.Publisher{}}
	return wire.Answer(res, res.GetPublisher(), one, err)
}

// RevokePublisher implements the method.
func (s *Service) RevokePublisher(ctx context.Context, req *v1.RevokePublisherRequest) (*v1.RevokePublisherResponse, error) {
	one, err := s.skills.Revoke(ctx, req.GetKeyId(), s.callerOf(ctx))
	res := &v1.RevokePublisherResponse{Publisher: &v1.Publisher{}}
	return wire.Answer(res, res.GetPublisher(), one, err)
}

// ListPublishers implements the method.
func (s *Service) ListPublishers(ctx context.Context, _ *v1.ListPublishersRequest) (*v1.ListPublishersResponse, error) {
	all, err := s.skills.Publishers(ctx)
	res := &v1.ListPublishersResponse{}
	return wire.Answer(res, res, map[string]any{"publishers": all}, err)
}
