/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Opens a shared object that may be anything. */
#include <dlfcn.h>

int main(int argc, char **argv)
{
	unsigned int (*poke)(void);
	void *object;

	if (argc != 2)
		return 2;
	object = dlopen(argv[1], RTLD_NOW);
	if (!object)
		return 1;
	*(void **)&poke = dlsym(object, "poke");
	if (poke)
		poke();
	return dlclose(object) ? 1 : 0;
}
