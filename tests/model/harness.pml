/* What all models share: which rule is left out and what surroundings are chosen comes from the environment of the
 * program that checks; interesting moments are counted, and told at its end. Nothing of it is part of a state.
 */

c_decl {
static unsigned long moments[64];
static int number_of(const char *name) { const char *value = getenv(name); return value ? atoi(value) : 0; }
static void tell(void) {
    int n;
    for (n = 0; n < 64; n++)
        if (moments[n]) printf("REACHED %d %lu\n", n, moments[n]);
}
}

#define BEGIN() c_code { atexit(tell); now.planted = number_of("PLANTED"); now.setting = number_of("SETTING"); }
#define reach(n) c_code { moments[n]++; }

#define max(a, b) ((a) > (b) -> (a) : (b))

byte planted, setting;
