/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a cluster file, and what to do about it. */
#include "../netcraq.c"

static int says(const char *cluster, const char *why)
{
	char error[256];
	struct nq_client *c = nq_open(&(struct nq_options){.cluster = cluster}, error, sizeof(error));

	if (!c && strstr(error, cluster) && strstr(error, why) && strstr(error, "netcraq up"))
		return 0;
	fprintf(stderr, "%s: \"%s\", without \"%s\"\n", cluster, c ? "it is open" : error, why);
	return 1;
}

int main(void)
{
	return says("/nowhere/cluster.yaml", "No such file") | says("/dev/null", "empty") | says("/", "directory");
}
