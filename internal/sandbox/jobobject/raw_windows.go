package jobobject

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

// This file has everything that needs raw memory: calls that x/sys lacks or that take structures by address.

var createRestrictedToken = windows.NewLazySystemDLL("advapi32.dll").NewProc("CreateRestrictedToken")

// restrictToken makes a token with fewer rights than t.
func restrictToken(t windows.Token, flags uint32, deny, restrict []windows.SIDAndAttributes) (windows.Token, error) {
	if err := createRestrictedToken.Find(); err != nil {
		return 0, err
	}
	var out windows.Token
	ok, _, err := createRestrictedToken.Call(uintptr(t), uintptr(flags),
		uintptr(len(deny)), uintptr(unsafe.Pointer(unsafe.SliceData(deny))), 0, 0,
		uintptr(len(restrict)), uintptr(unsafe.Pointer(unsafe.SliceData(restrict))), uintptr(unsafe.Pointer(&out)))
	runtime.KeepAlive(deny)
	runtime.KeepAlive(restrict)
	if ok == 0 {
		return 0, fmt.Errorf("CreateRestrictedToken: %w", err)
	}
	return out, nil
}

// setIntegrity labels a token.
func setIntegrity(t windows.Token, sid *windows.SID) error {
	label := windows.Tokenmandatorylabel{Label: windows.SIDAndAttributes{Sid: sid, Attributes: windows.SE_GROUP_INTEGRITY}}
	err := windows.SetTokenInformation(t, windows.TokenIntegrityLevel, (*byte)(unsafe.Pointer(&label)), label.Size())
	runtime.KeepAlive(sid)
	return err
}

// setDefaultDACL sets the access list of a token's new objects.
func setDefaultDACL(t windows.Token, acl *windows.ACL) error {
	info := struct{ dacl *windows.ACL }{acl}
	err := windows.SetTokenInformation(t, windows.TokenDefaultDacl, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	runtime.KeepAlive(acl)
	return err
}

// limitJob writes a job's limits.
func limitJob(job windows.Handle, p jobPlan) error {
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	l.BasicLimitInformation.LimitFlags = p.flags
	l.BasicLimitInformation.ActiveProcessLimit = p.processes
	l.BasicLimitInformation.PerJobUserTimeLimit = p.time
	l.JobMemoryLimit = uintptr(p.memory)
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&l)),
		uint32(unsafe.Sizeof(l))); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	ui := windows.JOBOBJECT_BASIC_UI_RESTRICTIONS{UIRestrictionsClass: p.ui}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectBasicUIRestrictions, uintptr(unsafe.Pointer(&ui)),
		uint32(unsafe.Sizeof(ui))); err != nil {
		return fmt.Errorf("windows: %w", err)
	}
	return nil
}

// readLimits reads back what limitJob wrote, and the peak of memory.
func readLimits(job windows.Handle) (p jobPlan, peak uint64, err error) {
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if err := windows.QueryInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&l)),
		uint32(unsafe.Sizeof(l)), nil); err != nil {
		return jobPlan{}, 0, err
	}
	var ui windows.JOBOBJECT_BASIC_UI_RESTRICTIONS
	if err := windows.QueryInformationJobObject(job, windows.JobObjectBasicUIRestrictions, uintptr(unsafe.Pointer(&ui)),
		uint32(unsafe.Sizeof(ui)), nil); err != nil {
		return jobPlan{}, 0, err
	}
	b := l.BasicLimitInformation
	return jobPlan{
			flags: b.LimitFlags, processes: b.ActiveProcessLimit, memory: uint64(l.JobMemoryLimit), time: b.PerJobUserTimeLimit,
			ui: ui.UIRestrictionsClass,
		},
		uint64(l.PeakJobMemoryUsed), nil
}

// account is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, which x/sys does not name.
type account struct {
	UserTime, KernelTime             int64
	PeriodUserTime, PeriodKernelTime int64
	PageFaults, Processes            uint32
	Active, Terminated               uint32
}

func readAccount(job windows.Handle) (a account, err error) {
	err = windows.QueryInformationJobObject(job, windows.JobObjectBasicAccountingInformation, uintptr(unsafe.Pointer(&a)),
		uint32(unsafe.Sizeof(a)), nil)
	return a, err
}

// jobList is PROC_THREAD_ATTRIBUTE_JOB_LIST, which x/sys does not name.
const jobList = 0x0002000d

// birth holds the attributes that a process is born with.
type birth struct {
	handles     []windows.Handle
	jobs        []windows.Handle
	mitigations uint64
	list        *windows.ProcThreadAttributeListContainer
}

// attributes makes the list for CreateProcess. The caller deletes it after that.
func (b *birth) attributes() (err error) {
	if b.list, err = windows.NewProcThreadAttributeList(3); err != nil {
		return err
	}
	const word = unsafe.Sizeof(windows.Handle(0))
	for _, a := range []struct {
		id   uintptr
		at   unsafe.Pointer
		size uintptr
	}{
		{windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(unsafe.SliceData(b.handles)), uintptr(len(b.handles)) * word},
		{jobList, unsafe.Pointer(unsafe.SliceData(b.jobs)), uintptr(len(b.jobs)) * word},
		{windows.PROC_THREAD_ATTRIBUTE_MITIGATION_POLICY, unsafe.Pointer(&b.mitigations), unsafe.Sizeof(b.mitigations)},
	} {
		if err := b.list.Update(a.id, a.at, a.size); err != nil {
			b.list.Delete()
			return err
		}
	}
	return nil
}

// startupSize is the size of the structure with an attribute list.
const startupSize = uint32(unsafe.Sizeof(windows.StartupInfoEx{}))
