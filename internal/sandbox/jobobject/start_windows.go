package jobobject

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/windows"

	"palyra"
	"palyra/internal/sandbox"
)

// makeJob makes a job object with limits, and reads them back: a job that does not hold what it was told is no job.
func makeJob(p jobPlan) (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("job: %w", err)
	}
	err = limitJob(job, p)
	if err == nil {
		var got jobPlan
		if got, _, err = readLimits(job); err == nil && !p.heldBy(got) {
			err = fmt.Errorf("it holds %+v, not %+v", got, p)
		}
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("job: %w", err), windows.CloseHandle(job))
	}
	return job, nil
}

// launch starts the program in a job of its own. It is born in the job, stopped,
// and goes on when that has been seen to be so.
func (b *Driver) launch(p jobSpec, j sandbox.Job) (_ *process, err error) {
	job, err := makeJob(p.job)
	if err != nil {
		return nil, spawnFailed("the limits of the run cannot be set").WithCause(err)
	}
	defer func() {
		if err != nil {
			_ = windows.CloseHandle(job) // which ends what is in it
		}
	}()
	token, err := makeToken(p.token)
	if err != nil {
		return nil, spawnFailed("the run's token cannot be made").WithCause(err)
	}
	defer func() { _ = token.Close() }()
	handles, closeHandles, err := inherited(j)
	if err != nil {
		return nil, spawnFailed("the streams cannot be handed over").WithCause(err)
	}
	defer closeHandles()
	info, err := create(p, token, birth{handles: handles, jobs: []windows.Handle{job}, mitigations: p.mitigations})
	if err != nil {
		return nil, notCreated(err)
	}
	defer func() { _ = windows.CloseHandle(info.Thread) }()
	if err = alone(job); err == nil {
		_, err = windows.ResumeThread(info.Thread)
	}
	if err != nil {
		_ = windows.CloseHandle(info.Process)
		return nil, spawnFailed("the program did not come to be in its job").WithCause(err)
	}
	return b.newProcess(p, job, info.Process), nil
}

// notCreated tells what cannot be executed from what could not be tried.
func notCreated(err error) error {
	if errors.Is(err, windows.ERROR_BAD_EXE_FORMAT) || errors.Is(err, windows.ERROR_FILE_NOT_FOUND) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonNotExecutable, "the program cannot be executed here").
			WithRemedy("tier C can run programs that everybody may run, and those of the workspace").WithCause(err)
	}
	return spawnFailed("the program could not be started").WithCause(err)
}

// alone checks that the job has the new process, and no other.
func alone(job windows.Handle) error {
	a, err := readAccount(job)
	if err == nil && a.Active != 1 {
		err = fmt.Errorf("%d processes in the job", a.Active)
	}
	return err
}

// inherited are handles on the three streams that a child can have.
func inherited(j sandbox.Job) (handles []windows.Handle, closeAll func(), err error) {
	closeAll = func() {
		for _, h := range handles {
			_ = windows.CloseHandle(h)
		}
	}
	self := windows.CurrentProcess()
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		var h windows.Handle
		if err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &h, 0, true, windows.DUPLICATE_SAME_ACCESS); err != nil {
			closeAll()
			return nil, nil, err
		}
		handles = append(handles, h)
	}
	return handles, closeAll, nil
}

// create makes the process, which does not run yet.
func create(p jobSpec, token windows.Token, b birth) (info windows.ProcessInformation, err error) {
	program, err := windows.UTF16PtrFromString(p.program)
	if err != nil {
		return info, err
	}
	command, err := windows.UTF16FromString(p.command) // the system writes into it
	if err != nil {
		return info, err
	}
	dir, err := windows.UTF16PtrFromString(p.dir)
	if err != nil {
		return info, err
	}
	if err := b.attributes(); err != nil {
		return info, err
	}
	defer b.list.Delete()
	si := windows.StartupInfoEx{ProcThreadAttributeList: b.list.List()}
	si.Cb, si.Flags = startupSize, windows.STARTF_USESTDHANDLES
	si.StdInput, si.StdOutput, si.StdErr = b.handles[0], b.handles[1], b.handles[2]
	const flags = windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT |
		windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_DEFAULT_ERROR_MODE
	err = windows.CreateProcessAsUser(token, program, &command[0], nil, nil, true, flags, &p.environment[0], dir, &si.StartupInfo, &info)
	return info, err
}

// newProcess follows a started program.
func (b *Driver) newProcess(p jobSpec, job, proc windows.Handle) *process {
	out := &process{backend: b, plan: p, job: job, handle: proc, begun: time.Now(), done: make(chan struct{})}
	b.track(out, true)
	b.work.Go(out.follow)
	return out
}
