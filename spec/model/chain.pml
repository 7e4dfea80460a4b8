/*
 * One shard of a NetCRAQ chain with one key, after spec/protocol.md. A comment such as "W6" names the rule that the code below it is.
 * README.md lists the omissions, with the reasons why they hide no violation.
 *
 * Every step is one d_step: one message at one node, or one order of the controller at one node. Compile with -DWITHOUT_<rule> to leave a rule out.
 */
#include "world.pml"
#include "node.pml"
#include "controller.pml"

/* W10: a session has one write at a time, and the answer may arrive any time after it was given. */
proctype Client(byte o) {
	d_step { o < 3 || write[o - 2].done != 0 -> printf("client: begins write %d\n", o); write[o].begun = true; write[o].after = seen };
	d_step { write[o].answered -> printf("client: has the answer to write %d\n", o); write[o].done = epoch }
}

inline start() {
	chain[1] = FIRST_CHAIN;
	for (place : 0 .. NODES - 1) {
		if
		:: IN(place, FIRST_CHAIN) -> node[place].epoch = 1; node[place].lease = true
		:: else
		fi
	}
}

init {
	atomic {
		start();
		for (place : 0 .. NODES - 1) {
			run Node(place)
		}
		for (place : 1 .. OPS) {
			run Client(place)
		}
		run Controller();
#ifndef CLIENTS_VIEW
		run Monitor()
#endif
	}
}
