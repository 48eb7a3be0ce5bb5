#include "textflag.h"

// func raw(c *syscallArgs)
TEXT ·raw(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ	c+0(FP), R12
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	MOVQ	AX, 56(R12)
	RET

// func rawShared(c *syscallArgs)
//
// The child runs on the stack of its parent, which goes on when the child is done: the return
// address is kept in a register, because the child overwrites it.
TEXT ·rawShared(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ	c+0(FP), R12
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	POPQ	R13
	SYSCALL
	PUSHQ	R13
	MOVQ	AX, 56(R12)
	RET

// func rawApart(c *syscallArgs, f *process)
//
// The child has another stack, and there its argument: nothing of this one's frame is its own.
TEXT ·rawApart(SB), NOSPLIT, $16-16
	MOVQ	c+0(FP), R12
	MOVQ	f+8(FP), R13
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	TESTQ	AX, AX
	JNE	parent
	XORL	BP, BP
	MOVQ	R13, 0(SP)
	CALL	·alive(SB)
	INT	$3
parent:
	MOVQ	AX, 56(R12)
	RET
