package posture

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schemas embed.FS

// Schema returns the package's tables.
func Schema() store.Schema { return store.SchemaOf("posture", schemas) }

// Config wires a Store.
type Config struct {
	Host
	DB      *store.DB
	Journal store.Recorder
	Signer  func() Signer // asked anew each time: keys rotate
}

// Store keeps postures and knows the one in force for each tier.
type Store struct {
	Config
	turn chan struct{} // held by the check under way

	mu   sync.Mutex
	last map[palyra.Tier]palyra.SignedPosture // of each tier the last one that was kept
}

// New returns a Store with what was kept.
func New(ctx context.Context, c Config) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.DB == nil || c.Journal == nil || c.Signer == nil {
		return nil, errors.New("posture: new: a part is missing")
	}
	s := &Store{Config: c, turn: make(chan struct{}, 1), last: map[palyra.Tier]palyra.SignedPosture{}}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("posture: new: %w", err)
	}
	return s, sweep(c.Dir)
}

// load reads the last posture of each tier. A posture that cannot be read is ignored: the tier is tried again.
func (s *Store) load(ctx context.Context) error {
	return s.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT t.tier, p.envelope FROM posture_tiers t JOIN postures p ON p.digest = t.digest`, nil,
			func(scan func(...any) error) error {
				var tier palyra.Tier
				var raw []byte
				if err := scan(&tier, &raw); err != nil {
					return err
				}
				p, err := unpack(raw)
				if err != nil {
					s.Log.Error("a posture that was kept cannot be read", "tier", tier, "err", err)
					return nil
				}
				s.last[tier] = p
				return nil
			})
	})
}

// unpack reads a kept posture without checking its signature. Whoever can write the database could change it;
// readers elsewhere check the signature.
func unpack(raw []byte) (palyra.SignedPosture, error) {
	env, err := readEnvelope(raw)
	if err != nil {
		return palyra.SignedPosture{}, err
	}
	payload, err := base64.StdEncoding.DecodeString(env.Payload)
	if err != nil {
		return palyra.SignedPosture{}, err
	}
	p, digest, err := readStatement(payload)
	return palyra.SignedPosture{Digest: digest, Envelope: env, Posture: p}, err
}

// Current returns the digest of the posture in force for a tier, whether all of it held, and the names of the
// probes that did. A posture whose facts have changed is not in force.
func (s *Store) Current(tier palyra.Tier) (digest palyra.Digest, held bool, probes []string) {
	s.mu.Lock()
	p, known := s.last[tier]
	s.mu.Unlock()
	if !known || !s.current(p) {
		return "", false, nil
	}
	t := tierOf(p.Posture, tier)
	for _, pr := range t.Probes {
		if pr.Held {
			probes = append(probes, pr.Name)
		}
	}
	return p.Digest, t.Held(), probes
}

// current reports whether the facts that a posture rests on are unchanged.
func (s *Store) current(p palyra.SignedPosture) bool {
	return p.Posture.StateID == s.StateID && maps.Equal(p.Posture.Facts, s.facts())
}

func tierOf(p palyra.Posture, tier palyra.Tier) palyra.TierPosture {
	for _, t := range p.Tiers {
		if t.Tier == tier {
			return t
		}
	}
	return palyra.TierPosture{}
}

// Check tries the tiers out, all where none is named, and keeps the signed
// result. Only one check is under way at a time; others wait.
func (s *Store) Check(ctx context.Context, tiers []palyra.Tier, by palyra.Principal) (palyra.SignedPosture, error) {
	host := s.Host
	if len(tiers) > 0 {
		host.Tiers = nil
	}
	for _, t := range tiers {
		if !slices.Contains(s.Tiers, t) {
			return palyra.SignedPosture{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "there is no tier %q to try out",
				palyra.Clip(string(t), 16)).
				WithRemedy("the tiers here are %v", s.Tiers)
		}
		if !slices.Contains(host.Tiers, t) {
			host.Tiers = append(host.Tiers, t)
		}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return palyra.SignedPosture{}, fmt.Errorf("posture: check: %w", context.Cause(ctx))
	}
	p, err := Check(ctx, host)
	if err != nil {
		return palyra.SignedPosture{}, err
	}
	return s.keep(ctx, p, by)
}

// keep signs a posture and makes it durable together with its line. Without it the posture is not in force.
func (s *Store) keep(ctx context.Context, p palyra.Posture, by palyra.Principal) (palyra.SignedPosture, error) {
	signed, err := Sign(s.Signer(), p)
	if err != nil {
		return palyra.SignedPosture{}, err
	}
	raw, err := json.Marshal(signed.Envelope)
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: keep: %w", err)
	}
	e := eventOf(signed, by)
	err = s.DB.Write(ctx, e.Kind(), func(tx *store.Tx) error {
		if _, err := tx.Exec(`INSERT INTO postures (digest, at, envelope) VALUES (?, ?, ?)`, string(signed.Digest), s.Now().UnixNano(),
			raw); err != nil {
			return err
		}
		for _, t := range p.Tiers {
			if _, err := tx.Exec(`INSERT INTO posture_tiers (tier, digest) VALUES (?, ?) ON CONFLICT (tier) DO UPDATE SET digest = excluded.digest`,
				string(t.Tier), string(signed.Digest)); err != nil {
				return err
			}
		}
		_, err := s.Journal.Append(tx, e)
		return err
	})
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: keep: %w", err)
	}
	s.mu.Lock()
	for _, t := range p.Tiers {
		s.last[t.Tier] = signed
	}
	s.mu.Unlock()
	signed.Current = s.current(signed)
	return signed, nil
}

func eventOf(p palyra.SignedPosture, by palyra.Principal) palyra.PostureChecked {
	e := palyra.PostureChecked{Posture: p.Digest, By: by, Held: []palyra.Tier{}, Failed: []string{}}
	for _, t := range p.Posture.Tiers {
		switch {
		case t.Held():
			e.Held = append(e.Held, t.Tier)
		case !t.Available:
			e.Failed = append(e.Failed, string(t.Tier))
		}
		for _, name := range t.Failed() {
			e.Failed = append(e.Failed, string(t.Tier)+"/"+name)
		}
	}
	return e
}

// Last returns the last posture of each tier, in the order of the tiers; one that covers several stands once.
func (s *Store) Last(context.Context) ([]palyra.SignedPosture, error) {
	s.mu.Lock()
	last := maps.Clone(s.last)
	s.mu.Unlock()
	list := []palyra.SignedPosture{}
	for _, t := range s.Tiers {
		p, known := last[t]
		if !known || slices.ContainsFunc(list, func(o palyra.SignedPosture) bool { return o.Digest == p.Digest }) {
			continue
		}
		p.Current = s.current(p)
		list = append(list, p)
	}
	return list, nil
}

// Get returns a posture by its digest.
func (s *Store) Get(ctx context.Context, digest palyra.Digest) (palyra.SignedPosture, error) {
	var raw []byte
	err := s.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT envelope FROM postures WHERE digest = ?`, []any{string(digest)}, &raw)
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.SignedPosture{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no posture with that digest").
			WithRemedy("see 'palyra sandbox posture'")
	}
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: get: %w", err)
	}
	p, err := unpack(raw)
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: get: %w", err)
	}
	p.Current = s.current(p)
	return p, nil
}
