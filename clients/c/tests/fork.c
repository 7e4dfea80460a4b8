/* SPDX-License-Identifier: Apache-2.0 */
/* A child must not use a session of its parent: its write would count as a repetition of the parent's. */
#include "../netcraq.c"

#include <sys/wait.h>

static int64_t add(struct nq_client *c)
{
	struct nq_result r;

	if (nq_add(c, "fork", 4, 1, NULL, &r)) {
		fprintf(stderr, "%s\n", r.text);
		return -1;
	}
	return r.counter;
}

int main(int argc, char **argv)
{
	struct nq_options o = {.cluster = argc > 1 ? argv[1] : NULL, .timeout_ms = 60000};
	char error[256];
	struct nq_client *c = nq_open(&o, error, sizeof(error));
	int status = -1;
	pid_t child;

	if (!c || add(c) != 1)
		return 1;
	child = fork();
	if (!child) {
		int64_t sum = add(c);

		nq_close(c);
		return (int)sum;
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 2)
		return 2;
	if (add(c) != 3)
		return 3;
	nq_close(c);
	return 0;
}
