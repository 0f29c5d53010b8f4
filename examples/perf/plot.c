/* SPDX-License-Identifier: Apache-2.0
 *
 * One bar for each row: the median ratio of libxfer to the limit, with a whisker from the worst
 * round to the best. */
#include <err.h>
#include <stdio.h>

#include "report.h"

enum { LEFT = 210, WIDTH = 560, BAR = 18, STEP = 28, TOP = 80, NUMBERS = 190 };

static double at(double ratio, double most) {
    return LEFT + WIDTH * ratio / most;
}

static void draw_row(FILE *file, const struct report *report, size_t i, double most) {
    const struct row *row = &report->rows[i];
    struct summary ratio = summarize(row->ratio, report->options->rounds);
    double y = TOP + (double)i * STEP;
    double middle = y + BAR / 2.0;
    char size[32];
    fprintf(file, "<text x='%d' y='%.0f' text-anchor='end'>%s %s, window %llu</text>\n", LEFT - 8,
            middle + 4, row_name(row), size_text(row->plan.size, size, sizeof size),
            (unsigned long long)row->plan.window);
    fprintf(file, "<rect x='%d' y='%.0f' width='%.1f' height='%d' fill='#4a7fb5'/>\n", LEFT, y,
            at(ratio.median, most) - LEFT, BAR);
    fprintf(file, "<path d='M%.1f %.1fH%.1f' stroke='#222' stroke-width='1.5'/>\n",
            at(ratio.min, most), middle, at(ratio.max, most));
    size_t round = median_index(row->ratio, report->options->rounds);
    fprintf(file, "<text x='%.1f' y='%.0f'>%.2f (%.4g %s)</text>\n", at(ratio.max, most) + 6,
            middle + 4, ratio.median, row->xfer.value[round], row_is_time(row) ? "us" : "GB/s");
}

/* Text of the machine's, which may have any character. */
static void write_text(FILE *file, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || (unsigned char)*text < ' ')
            fprintf(file, "&#%d;", *text < ' ' ? '?' : *text);
        else
            fputc(*text, file);
    }
}

/* What was measured, and where. */
static void draw_conditions(FILE *file, const struct report *report) {
    const struct mode *mode = &report->options->mode;
    fprintf(file, "<text x='12' y='36'>path: ");
    write_text(file, report->path != NULL ? report->path : "none");
    char threads[16];
    char lanes[16];
    fprintf(file, "; dispatch %s, io_threads %s, lanes %s%s%s; libxfer %s</text>\n",
            dispatch_name(mode->dispatch), choice_text(mode->io_threads, threads),
            choice_text(mode->lanes, lanes), mode->busy ? ", pollers spin" : "",
            mode->checksum ? ", checksums" : "", xfer_version_string());
    fprintf(file, "<text x='12' y='52'>");
    write_text(file, report->machine.cpu);
    fprintf(file, "; ");
    write_text(file, report->machine.kernel);
    fprintf(file, "; %s</text>\n", report->machine.date);
}

void report_write_plot(const struct report *report, const char *path) {
    FILE *file = fopen(path, "we");
    if (file == NULL) err(1, "%s", path);
    double most = 1.1;
    for (size_t i = 0; i < report->row_count; i++) {
        double max = summarize(report->rows[i].ratio, report->options->rounds).max;
        if (max > most) most = max;
    }
    int height = TOP + (int)report->row_count * STEP + 16;
    fprintf(
        file,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
        "font-family='sans-serif' font-size='12'>\n"
        "<rect width='100%%' height='100%%' fill='white'/>\n"
        "<text x='%d' y='18' font-size='14'>libxfer by the limit of the machine, median of %llu "
        "rounds (line: worst to best)</text>\n",
        LEFT + WIDTH + NUMBERS, height, 12, (unsigned long long)report->options->rounds);
    draw_conditions(file, report);
    for (size_t i = 0; i < report->row_count; i++)
        draw_row(file, report, i, most);
    fprintf(file, "<path d='M%.1f %dV%d' stroke='#c33' stroke-dasharray='4 3'/>\n", at(1, most),
            TOP - 10, height - 12);
    fprintf(file, "<text x='%.1f' y='%d' fill='#c33' text-anchor='middle'>1.0</text>\n</svg>\n",
            at(1, most), TOP - 13);
    if (fclose(file) != 0) err(1, "%s", path);
}
