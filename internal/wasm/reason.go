package wasm

import "palyra"

// The reasons for which an invocation ends, or is not begun. They are part of the protocol.
const (
	// Of a module, before anything runs.
	ReasonBadModule palyra.Reason = "wasm_bad_module" // it is malformed, or uses what is switched off
	ReasonImport    palyra.Reason = "wasm_import"     // it imports what is not offered
	ReasonExport    palyra.Reason = "wasm_export"     // what it must export is not there, or of another type
	ReasonTooLarge  palyra.Reason = "wasm_too_large"  // its binary, or its compiled form
	ReasonCompile   palyra.Reason = "wasm_compile"    // compiling took too long, or too much memory
	ReasonDigest    palyra.Reason = "wasm_digest"     // its bytes are not those of its digest

	// Limits.
	ReasonFuel      palyra.Reason = "wasm_fuel"
	ReasonDeadline  palyra.Reason = "wasm_deadline"
	ReasonMemory    palyra.Reason = "wasm_memory"
	ReasonTable     palyra.Reason = "wasm_table"
	ReasonInstances palyra.Reason = "wasm_instances"
	ReasonStack     palyra.Reason = "wasm_stack"
	ReasonOutput    palyra.Reason = "wasm_output"
	ReasonInput     palyra.Reason = "wasm_input"
	ReasonHostCalls palyra.Reason = "wasm_host_calls"
	ReasonHostBytes palyra.Reason = "wasm_host_bytes"

	// Other ends.
	ReasonTrap       palyra.Reason = "wasm_trap"           // the module broke a rule of WebAssembly, or gave up
	ReasonHandle     palyra.Reason = "wasm_foreign_handle" // it used a number that is no handle of its invocation, or of another kind
	ReasonPointer    palyra.Reason = "wasm_pointer"        // it named memory that it does not have
	ReasonExit       palyra.Reason = "wasm_exit"           // a command ended with another code than 0
	ReasonNotJSON    palyra.Reason = "wasm_not_json"       // its output is not JSON
	ReasonWorkerDied palyra.Reason = "wasm_worker_died"    // the process of the runtime ended
	ReasonWorkerLied palyra.Reason = "wasm_worker_broken"  // it did not answer as it must
	ReasonStalled    palyra.Reason = "wasm_worker_stalled" // it did not answer in time, and was ended

	// Answers to host calls, which the module may live with.
	ReasonNotGranted palyra.Reason = "wasm_not_granted"

	// ReasonNoRuntime says that skills are off on this machine.
	ReasonNoRuntime palyra.Reason = "wasm_unavailable"
)
