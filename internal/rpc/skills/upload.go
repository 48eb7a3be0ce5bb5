package skills

import (
	"sync"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/skill"
)

// uploads are packages that are on their way to the daemon: one at a time. A later one takes its place.
type uploads struct {
	mu  sync.Mutex // guards now
	now *upload
}

type upload struct {
	by     palyra.Principal
	digest string
	size   int64
	got    []byte
}

func badUpload(text string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", text).WithRemedy("send the package again, from its beginning")
}

// take takes a part in, and returns the package when it is whole.
func (u *uploads) take(by palyra.Principal, req *v1.InstallSkillRequest) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	part, size := req.GetPart(), req.GetSize()
	switch {
	case size <= 0 || size > skill.MaxPackage:
		return nil, palyra.Errorf(palyra.Invalid, skill.ReasonTooLarge, "a package has at most %d bytes", skill.MaxPackage).
			WithRemedy("leave out of it what its tools do not need")
	case len(part) == 0 || len(part) > skill.MaxPart || req.GetOffset() < 0 || req.GetOffset()+int64(len(part)) > size:
		return nil, badUpload("that is no part of a package")
	case req.GetOffset() == 0:
		u.now = &upload{by: by, digest: req.GetDigest(), size: size}
	}
	now := u.now
	if now == nil || now.by != by || now.digest != req.GetDigest() || now.size != size || int64(len(now.got)) != req.GetOffset() {
		return nil, badUpload("the part does not follow the one before: another package may have been sent meanwhile")
	}
	now.got = append(now.got, part...)
	if int64(len(now.got)) < size {
		return nil, nil
	}
	u.now = nil
	if string(palyra.SumBytes(now.got)) != now.digest {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "the package did not arrive as it was sent").
			WithRemedy("send it again; nothing was installed")
	}
	return now.got, nil
}
