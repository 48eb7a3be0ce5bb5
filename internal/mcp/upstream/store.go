package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/store"
)

// load reads everything.
func (r *Registry) load(ctx context.Context) (all []palyra.Upstream, _ error) {
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if all, err = loadUpstreams(tx); err != nil {
			return err
		}
		for i := range all {
			if all[i].Tools, err = loadTools(tx, all[i].Name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("upstream: load: %w", err)
	}
	return all, nil
}

func loadUpstreams(tx *store.Tx) (all []palyra.Upstream, _ error) {
	err := tx.Each(`SELECT name, definition, digest, server, added_by, added_at FROM mcp_upstreams ORDER BY name`, nil,
		func(scan func(...any) error) error {
			u := palyra.Upstream{State: palyra.UpstreamIdle}
			var definition string
			var at int64
			if err := scan(&u.Name, &definition, &u.Digest, &u.Server, &u.AddedBy, &at); err != nil {
				return err
			}
			u.AddedAt = time.Unix(0, at).UTC()
			if err := json.Unmarshal([]byte(definition), &u.UpstreamDefinition); err != nil {
				return err
			}
			all = append(all, u)
			return nil
		})
	return all, err
}

func loadTools(tx *store.Tx, name string) (all []palyra.UpstreamTool, _ error) {
	err := tx.Each(`SELECT tool FROM mcp_tools WHERE upstream = ? ORDER BY name`, []any{name}, func(scan func(...any) error) error {
		var raw string
		if err := scan(&raw); err != nil {
			return err
		}
		var t palyra.UpstreamTool
		if err := json.Unmarshal([]byte(raw), &t); err != nil {
			return err
		}
		all = append(all, t)
		return nil
	})
	return all, err
}

// insert stores a new upstream with its tools and journals it, at once; so goes the one that it replaces.
func (r *Registry) insert(ctx context.Context, q AddRequest, u palyra.Upstream, events ...palyra.Event) error {
	definition, err := json.Marshal(u.UpstreamDefinition)
	if err != nil {
		return err
	}
	return r.DB.Write(ctx, "upstream.added", func(tx *store.Tx) error {
		if q.Replace {
			if err := r.remove(tx, palyra.UpstreamRemoved{Name: u.Name, By: q.By, Signature: q.Signature}); err != nil {
				return err
			}
		}
		n, err := tx.Exec(`INSERT INTO mcp_upstreams (name, definition, digest, server, added_by, added_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
			u.Name, string(definition), string(u.Digest), u.Server, string(u.AddedBy), u.AddedAt.UnixNano())
		if err != nil {
			return err
		}
		if n == 0 {
			return exists(u.Name)
		}
		return r.put(tx, u, events)
	})
}

// save stores the tools of an upstream as they are now, and journals why.
func (r *Registry) save(ctx context.Context, step string, u palyra.Upstream, events ...palyra.Event) error {
	return r.DB.Write(ctx, step, func(tx *store.Tx) error {
		n, err := tx.Exec(`UPDATE mcp_upstreams SET server = ? WHERE name = ? AND digest = ?`, u.Server, u.Name, string(u.Digest))
		if err != nil {
			return err
		}
		if n == 0 {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the MCP server %s was removed meanwhile", u.Name)
		}
		if _, err := tx.Exec(`DELETE FROM mcp_tools WHERE upstream = ?`, u.Name); err != nil {
			return err
		}
		return r.put(tx, u, events)
	})
}

func (r *Registry) put(tx *store.Tx, u palyra.Upstream, events []palyra.Event) error {
	for _, t := range u.Tools {
		raw, err := json.Marshal(t)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO mcp_tools (upstream, name, tool) VALUES (?, ?, ?)`, u.Name, t.Name, string(raw)); err != nil {
			return err
		}
	}
	for _, e := range events {
		if _, err := r.Journal.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// drop forgets an upstream.
func (r *Registry) drop(ctx context.Context, e palyra.UpstreamRemoved) error {
	return r.DB.Write(ctx, e.Kind(), func(tx *store.Tx) error { return r.remove(tx, e) })
}

func (r *Registry) remove(tx *store.Tx, e palyra.UpstreamRemoved) error {
	if _, err := tx.Exec(`DELETE FROM mcp_tools WHERE upstream = ?`, e.Name); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM mcp_upstreams WHERE name = ?`, e.Name); err != nil {
		return err
	}
	_, err := r.Journal.Append(tx, e)
	return err
}
