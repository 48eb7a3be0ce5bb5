package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// VerifyFile checks a copy of the state file, or an export, with the given verifier lines; it needs no daemon and
// writes nothing beside the file. progress may be nil. With an auditor the tables of a state file beside the
// journal are looked at too. An error is returned whenever the report has a problem.
func VerifyFile(ctx context.Context, path string, verifiers []string, progress func(done, total int64),
	auditors ...func(now time.Time) Auditor,
) (Report, error) {
	k, err := parseKeys(verifiers)
	if err != nil {
		return Report{}, err
	}
	database, err := sqlite.Is(path)
	if err != nil {
		return Report{}, err
	}
	if database {
		return verifyCopy(ctx, path, k, progress, auditors)
	}
	f, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("journal: verify: %w", err)
	}
	defer func() { _ = f.Close() }()
	return verifyExport(ctx, f, k, progress)
}

func verifyCopy(ctx context.Context, path string, k keys, progress func(done, total int64),
	auditors []func(now time.Time) Auditor,
) (_ Report, err error) {
	engine, err := sqlite.OpenCopy(path)
	if err != nil {
		return Report{}, err
	}
	db, err := store.Open(ctx, engine)
	if err != nil {
		return Report{}, errors.Join(err, engine.Close())
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	v := verifier{read: db.Read, trusted: func() keys { return k }, progress: progress}
	v.report.Source = "database"
	for _, a := range auditors {
		v.auditor, v.whole = a, db.Check
	}
	return v.run(ctx)
}
