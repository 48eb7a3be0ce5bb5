package store

import (
	"context"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"palyra"
)

// migrate brings one part's tables up to date. Each part counts its versions in a table of its own, so that parts
// can be added and changed independently. Tables made by a later version of Palyra are refused: this one does not
// know what they mean.
func migrate(ctx context.Context, e Engine, s Schema) error {
	dir, err := fs.Sub(s.FS, e.Dialect())
	if err != nil {
		return err
	}
	dialect := database.DialectSQLite3
	if e.Dialect() == "postgres" {
		dialect = database.DialectPostgres
	}
	versions, err := database.NewStore(dialect, "schema_"+s.Part)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider("", e.Writer(), dir, goose.WithStore(versions), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > known {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig,
			"the tables of %s are of version %d, this Palyra knows up to %d", s.Part, have, known).
			WithRemedy("run the newer Palyra that last used this state")
	}
	_, err = p.Up(ctx)
	return err
}
